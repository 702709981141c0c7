"""TensorRT engines, built by the trtexec of the image that will serve them."""

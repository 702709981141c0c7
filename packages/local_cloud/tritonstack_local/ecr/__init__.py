"""ECR's layers, uploaded, found and downloaded: images can be copied by digest. The rest is moto's."""

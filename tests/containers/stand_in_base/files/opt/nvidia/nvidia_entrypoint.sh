#!/bin/bash
# Stands for NVIDIA's entry point, which prints its banner and becomes what it was asked to run.
echo "== stand-in for SageMaker's Triton image =="
exec "$@"

#!/bin/sh
# publish.sh FOLDER BASE_IMAGE IMAGE [TORCH_INDEX]: build the image of one of these folders and push it, unless it is
# there already.
# Its tag names all that it is made from, and a tag is written once: two of these at once do no harm.
set -eu

base=$2 image=$3 torch_index=${4-}
here=$(cd "$(dirname "$0")/$1" && pwd)
repository=${image#*/}
tag=${repository##*:}
repository=${repository%:*}

log_in() {
    aws ecr get-login-password | docker login --username AWS --password-stdin "${1%%/*}"
}

pushed() {
    aws ecr describe-images --repository-name "$repository" --image-ids "imageTag=$tag" >/dev/null 2>&1
}

if pushed; then
    echo "$image is there already"
    exit 0
fi
# SageMaker takes Docker's manifests alone, neither OCI's nor an index with attestations, which buildx makes unasked.
build() {
    if docker buildx version >/dev/null 2>&1; then
        docker buildx build --provenance=false --sbom=false --output type=docker "$@"
    else
        docker build "$@"
    fi
}

log_in "$base"
build --build-arg "BASE_IMAGE=$base" ${torch_index:+--build-arg "TORCH_INDEX=$torch_index"} --tag "$image" "$here"
log_in "$image"
docker push "$image" || pushed

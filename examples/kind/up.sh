#!/usr/bin/env bash
# A kind cluster with the operator, and one node that stands in for eight MI355X. Called by `make kind-up`.
set -euo pipefail
cd "$(dirname "$0")/../.."
for tool in docker kind kubectl helm; do
  command -v "$tool" >/dev/null || { echo "kind-up: $tool is missing: install it first" >&2; exit 1; }
done

kind get clusters | grep -qx tunewright || kind create cluster --config examples/kind/cluster.yaml --wait 5m
kubectl config use-context kind-tunewright
examples/kind/stand-in-gpus.sh tunewright-control-plane

docker build --tag tunewright-trial-base:cpu --file examples/kind/trial-base.dockerfile examples/kind
docker build --target operator --tag tunewright-operator:kind .
docker build --target trial --build-arg TRIAL_BASE_IMAGE=tunewright-trial-base:cpu --tag tunewright-trial:kind .
kind load docker-image --name tunewright tunewright-operator:kind tunewright-trial:kind

helm upgrade --install tunewright charts/tunewright --namespace tunewright --create-namespace --wait --timeout 5m \
  --set image.repository=tunewright-operator --set image.tag=kind --set trial.image=tunewright-trial:kind
echo "Next: kubectl apply -f examples/kind/tuningrun.yaml; kubectl get tuningruns --watch"

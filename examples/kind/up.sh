#!/usr/bin/env bash
# A kind cluster with the operator, and one node that stands in for eight MI355X. Called by `make kind-up`; safe to
# repeat, after a change of the code too.
set -euo pipefail
cd "$(dirname "$0")/../.."
for tool in docker kind kubectl helm; do
  command -v "$tool" >/dev/null || { echo "kind-up: $tool is missing: install it first" >&2; exit 1; }
done

clusters=$(kind get clusters)
grep -qx tunewright <<<"$clusters" || kind create cluster --config examples/kind/cluster.yaml --wait 5m
kind export kubeconfig --name tunewright
examples/kind/stand-in-gpus.sh tunewright-control-plane

docker build --tag tunewright-trial-base:cpu --file examples/kind/trial-base.dockerfile examples/kind
docker build --target operator --tag tunewright-operator:kind .
docker build --target trial --build-arg TRIAL_BASE_IMAGE=tunewright-trial-base:cpu --tag tunewright-trial:kind .
kind load docker-image --name tunewright tunewright-operator:kind tunewright-trial:kind

helm upgrade --install tunewright charts/tunewright --namespace tunewright --create-namespace \
  --set image.repository=tunewright-operator --set image.tag=kind --set trial.image=tunewright-trial:kind
# An image that was built again has the name of the one before, which no Deployment notices.
kubectl --namespace tunewright rollout restart deployment/tunewright
kubectl --namespace tunewright rollout status deployment/tunewright --timeout 5m
echo "Next: kubectl apply -f examples/kind/tuningrun.yaml; kubectl get tuningruns --watch"

#!/usr/bin/env bash
# Makes a node look like one with Instinct GPUs: AMD's label, and amd.com/gpu to ask for. For trying the operator out.
#
#   examples/kind/stand-in-gpus.sh NODE [COUNT] [DEVICE_ID]
#
# The kubelet leaves extended resources alone that somebody else advertised, as in
# https://kubernetes.io/docs/tasks/administer-cluster/extended-resource-node.
set -euo pipefail
node=${1:?usage: stand-in-gpus.sh NODE [COUNT] [DEVICE_ID]}
count=${2:-8}
device_id=${3:-75a3} # MI355X

kubectl label node "$node" --overwrite "amd.com/gpu.device-id=$device_id"
kubectl patch node "$node" --subresource=status --type=merge --patch \
  "{\"status\": {\"capacity\": {\"amd.com/gpu\": \"$count\"}, \"allocatable\": {\"amd.com/gpu\": \"$count\"}}}"

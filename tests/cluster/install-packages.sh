#!/usr/bin/env bash
# Installs what a real kubelet and Argo CD in the tests need (Debian, root). Run by CI and by hand; safe to repeat.
# Where it cannot, it says so in one line and succeeds: only their tests need these. In CI that is a failure.
set -euo pipefail

packages=(buildah conntrack containerd containernetworking-plugins debootstrap faketime git iproute2 iptables openssl prometheus redis-server runc)

give_up() {
    echo "!!! install-packages: $1; the e2e tests need, as root: ${packages[*]}" >&2
    case "${CI:-}" in true | 1 | yes) exit 1 ;; esac
    exit 0
}

command -v apt-get >/dev/null || give_up "this is not a Debian system"

missing=()
for package in "${packages[@]}"; do
    dpkg-query --show --showformat='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
[ "${#missing[@]}" -eq 0 ] && exit 0

[ "$(id -u)" -eq 0 ] || give_up "not root, and ${missing[*]} not installed"
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet=2 || give_up "apt-get update failed"
apt-get install --quiet=2 --yes --no-install-recommends "${missing[@]}" || give_up "apt-get install failed"

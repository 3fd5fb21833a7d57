#!/bin/sh
# Nothing to install: the folder is mounted by devcontainer.json, and must be there
# for images whose user may not make it.
set -eu
mkdir -p /etc/kimbap

#!/bin/sh
# The main job, from nothing: a client without a key calls an API that wants one.
# Usage: demo.sh KIMBAP UPSTREAM. Everything happens in a throw-away folder, on
# loopback.
set -eu
bin=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
upstream=$2
dir=$(mktemp -d "${TMPDIR:-/tmp}/kimbap-demo.XXXXXX")
PIDS=""
cleanup() { for p in $PIDS; do kill "$p" 2>/dev/null || true; wait "$p" 2>/dev/null || true; done; rm -rf "$dir"; }
trap cleanup EXIT
trap 'exit 130' INT TERM

for name in HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy NO_PROXY no_proxy \
  SSL_CERT_FILE CURL_CA_BUNDLE KIMBAP_HOME KIMBAP_TOKEN KIMBAP_MASTER_KEY; do unset "$name"; done
export KIMBAP_HOME="$dir/home"
kimbap() { "$bin" "$@"; }
step() { printf '\n== %s\n' "$*"; }
show() { printf '$ %s\n' "$*"; }
fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }
await() { i=0; until "$@" 2>/dev/null; do i=$((i + 1)); [ $i -lt 100 ] || fail "waited too long for: $*"; sleep 0.1; done; }

step "An API on loopback that answers nobody without its token"
key="demo-$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')"
mkdir -p "$dir/upstream" && chmod 700 "$dir/upstream"
"$upstream" "$dir/upstream" "$key" >"$dir/upstream/log" 2>&1 & PIDS="$PIDS $!"
await test -s "$dir/upstream/port"
port=$(cat "$dir/upstream/port")
direct="--connect-to api.demo.test:443:127.0.0.1:$port --cacert $dir/upstream/ca.pem"
show "curl https://api.demo.test/notes"
curl -sS $direct https://api.demo.test/notes

step "kimbap takes the key into its vault; from here on no client needs it"
mkdir -p "$KIMBAP_HOME" && chmod 700 "$KIMBAP_HOME"
cat >"$KIMBAP_HOME/config.yaml" <<EOF
# Only the demo needs these: its API is on loopback and signs for itself.
upstream:
  resolve: {"api.demo.test:443": "127.0.0.1:$port", "plain.demo.test:443": "127.0.0.1:$port"}
  ca_file: $dir/upstream/ca.pem
EOF
show "echo \$KEY | kimbap link demo"
printf '%s\n' "$key" | kimbap link demo

step "Plain curl, without a key, under kimbap run"
show "kimbap run -- curl https://api.demo.test/notes"
kimbap run -- curl -sS https://api.demo.test/notes | tee "$dir/answer"
grep -q rice "$dir/answer" || fail "the read did not work"

step "The same in a shell: a proxy, and eval \"\$(kimbap env)\""
show "kimbap proxy &"
"$bin" proxy --listen 127.0.0.1:0 2>"$dir/proxy.log" & PIDS="$PIDS $!"
await grep -q '^listening on' "$dir/proxy.log"
cat "$dir/proxy.log"
show 'eval "$(kimbap env)"; curl https://api.demo.test/notes/1'
eval "$(kimbap env)"
curl -sS https://api.demo.test/notes/1 | tee "$dir/answer"
grep -q rice "$dir/answer" || fail "the read did not work"
echo "the shell holds: DEMO_TOKEN=$DEMO_TOKEN"

step "A delete is a high risk: by default a person is asked first"
show "curl -X DELETE https://api.demo.test/notes/2"
curl -sS -X DELETE https://api.demo.test/notes/2 | tee "$dir/answer"
grep -q approval_pending "$dir/answer" || fail "the delete was not refused"
show "kimbap approve list"
kimbap approve list
id=$(kimbap approve list -o json --jq '.[0].id' | tr -d '"')
show "kimbap approve accept $id"
kimbap approve accept "$id"
show "curl -X DELETE https://api.demo.test/notes/2      (the same request, once)"
curl -sS -X DELETE https://api.demo.test/notes/2 | tee "$dir/answer"
grep -q '"deleted":true' "$dir/answer" || fail "the approved delete did not work"

step "A host that no service owns is tunnelled: its own certificate, its own bytes"
show "curl https://plain.demo.test/"
curl -sS -v --cacert "$dir/upstream/ca.pem" https://plain.demo.test/ 2>"$dir/verbose" | tee "$dir/answer"
grep -i 'issuer' "$dir/verbose" || true
grep -q 'no key for' "$dir/answer" || fail "the tunnel did not work"

step "Everything is on record, in a chain that shows every change"
show "kimbap audit tail"
kimbap audit tail -n 12
show "kimbap audit verify"
kimbap audit verify
if grep -r "$key" "$KIMBAP_HOME" >/dev/null; then fail "the key lies readable in the home"; fi

cat <<'EOF'

== That was the main job. With your own API:
  gh auth token | kimbap link github     (or: kimbap link openai, anthropic, slack, stripe, npm)
  kimbap run -- claude                   (or any other program)
EOF

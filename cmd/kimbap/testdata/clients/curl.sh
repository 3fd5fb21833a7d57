#!/bin/sh
# curl.sh BASE CONTROL DIR CASE...: see clients_test.go for what each case does and prints.
set -eu
base=$1 control=$2 dir=$3
shift 3
own='Authorization: Bearer the-clients-own'

# call ARG...: one request; its answer's status, headers and body as lines.
call() {
	curl -sS --suppress-connect-headers -D "$dir/head" -o "$dir/body" "$@"
	tr -d '\r' <"$dir/head" | awk '
		/^HTTP\// { n = 0; status = $2; next }
		/:/ { name = tolower($0); sub(/:.*/, "", name); value = $0; sub(/^[^:]*: */, "", value); line[n++] = "header " name " " value }
		END { print "status " status; for (i = 0; i < n; i++) print line[i] }'
	echo "size $(wc -c <"$dir/body" | tr -d ' ')"
	echo "sha256 $(sha256sum <"$dir/body" | cut -d' ' -f1)"
}

for case in "$@"; do
	echo "== $case"
	case $case in
	get) call -H "$own" -H 'Accept: application/json' -H 'X-Trace: t-1' -H 'Accept-Encoding: gzip' "$base/items/42/notes/a%20b?tag=x&tag=y&q=a+b" ;;
	hop) call -H 'Connection: keep-alive, X-Hop' -H 'X-Hop: 1' -H 'Keep-Alive: timeout=5' "$base/items/7/notes/hop" ;;
	bare) call -H 'User-Agent:' -H 'Accept:' "$base/items/7/notes/bare" ;;
	json) call -H "$own" -H 'Content-Type: application/json' --data-binary '{"name":"é","n":1.0}' "$base/items" ;;
	form) call --data 'a=1&b=two+words&a=3' "$base/forms" ;;
	missing) call "$base/status/404" ;;
	broken) call "$base/status/500" ;;
	reply) call -H 'Accept-Encoding: gzip' "$base/reply" ;;
	down) call "$base/blob" ;;
	up) call -H 'Content-Type: application/octet-stream' --data-binary "@$dir/up.bin" "$base/blob" ;;
	reuse)
		curl -sS -o /dev/null -w '%{http_code} %{num_connects}\n' "$base/items/[1-100]/notes/n" |
			awk '$1 == 200 { ok++ } { made += $2 } END { print "ok " ok; print "connections " made }' ;;
	stream)
		curl -sSN -H 'Accept: text/event-stream' "$base/stream" | while read -r line; do
			case $line in
			data:*) n=${line#data: }; echo "event $n"; curl -sS -o /dev/null "$control/ack?n=$n" ;;
			esac
		done ;;
	*) echo "no such case: $case" >&2; exit 2 ;;
	esac
done

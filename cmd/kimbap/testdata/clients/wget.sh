#!/bin/sh
# wget.sh BASE CONTROL DIR CASE...: see clients_test.go for what each case does and prints.
set -eu
base=$1 control=$2 dir=$3
shift 3
own='Authorization: Bearer the-clients-own'

# call ARG...: one request; its answer's status, headers and body as lines. With
# -d wget writes each answer's head between two marks, that of a proxy too.
call() {
	code=0
	wget -d -o "$dir/log" -O "$dir/body" --content-on-error "$@" || code=$?
	[ "$code" = 0 ] || [ "$code" = 8 ] || { cat "$dir/log" >&2; exit "$code"; } # 8: the answer was an error
	tr -d '\r' <"$dir/log" | awk '
		/^---response begin---/ { inside = 1; n = 0; next }
		/^---response end---/ { inside = 0 }
		inside && /^HTTP\// { status = $2; next }
		inside && /:/ { name = tolower($0); sub(/:.*/, "", name); value = $0; sub(/^[^:]*: */, "", value); line[n++] = "header " name " " value }
		END { print "status " status; for (i = 0; i < n; i++) print line[i] }'
	echo "size $(wc -c <"$dir/body" | tr -d ' ')"
	echo "sha256 $(sha256sum <"$dir/body" | cut -d' ' -f1)"
}

for case in "$@"; do
	echo "== $case"
	case $case in
	get) call --header "$own" --header 'Accept: application/json' --header 'X-Trace: t-1' --header 'Accept-Encoding: gzip' "$base/items/42/notes/a%20b?tag=x&tag=y&q=a+b" ;;
	json) call --header "$own" --header 'Content-Type: application/json' --post-data '{"name":"é","n":1.0}' "$base/items" ;;
	form) call --post-data 'a=1&b=two+words&a=3' "$base/forms" ;;
	missing) call "$base/status/404" ;;
	broken) call "$base/status/500" ;;
	reply) call --header 'Accept-Encoding: gzip' "$base/reply" ;;
	down) call "$base/blob" ;;
	up) call --header 'Content-Type: application/octet-stream' --post-file "$dir/up.bin" "$base/blob" ;;
	reuse)
		for n in $(seq 100); do echo "$base/items/$n/notes/n"; done |
			LC_ALL=C wget -o "$dir/log" -O /dev/null -i -
		awk '/awaiting response... 200/ { ok++ } /^Connecting to .* connected\.$/ { made++ } END { print "ok " ok; print "connections " made }' "$dir/log" ;;
	stream)
		wget -q -O - --header 'Accept: text/event-stream' "$base/stream" | while read -r line; do
			case $line in
			data:*) n=${line#data: }; echo "event $n"; wget -q -O /dev/null "$control/ack?n=$n" ;;
			esac
		done ;;
	*) echo "no such case: $case" >&2; exit 2 ;;
	esac
done

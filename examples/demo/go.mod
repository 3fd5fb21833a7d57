module github.com/kimbap-run/kimbap/examples/demo

go 1.26

module github.com/kimbap-run/kimbap/certs/testdata/bettertls

go 1.26.0

require (
	github.com/Netflix/bettertls v0.0.0-20250909192348-e1e99e353074
	github.com/kimbap-run/kimbap v0.0.0
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/hashicorp/golang-lru/v2 v2.0.7 // indirect
	github.com/sirupsen/logrus v1.8.1 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	google.golang.org/protobuf v1.33.0 // indirect
)

replace github.com/kimbap-run/kimbap => ../../..

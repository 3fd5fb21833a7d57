package services

// SchemaURL is where editors find the JSON Schema of service files.
const SchemaURL = "https://raw.githubusercontent.com/kimbap-run/kimbap/main/docs/service.schema.json"

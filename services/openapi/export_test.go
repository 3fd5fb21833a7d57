package openapi

// SameAsOracle is for the test of the official descriptions.
var SameAsOracle = sameAsOracle

package suites

const migrating = "migrating.md"

// Differences are the tests that fail because of a documented difference.
var Differences = []Difference{}

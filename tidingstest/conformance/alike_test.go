package conformance

import "testing"

func TestAlike(t *testing.T) {
	const one = "200\n{\n \"metadata\": {\n  \"managedFields\": [\n   {\n    \"manager\": \"a\"\n   },\n   {\n    \"manager\": \"b\"\n   }\n  ]\n }\n}"
	const other = "200\n{\n \"metadata\": {\n  \"managedFields\": [\n   {\n    \"manager\": \"b\"\n   },\n   {\n    \"manager\": \"a\"\n   }\n  ]\n }\n}"
	const third = "200\n{\n \"metadata\": {\n  \"managedFields\": [\n   {\n    \"manager\": \"b\"\n   },\n   {\n    \"manager\": \"c\"\n   }\n  ]\n }\n}"
	if !alike(one, other) || alike(one, third) || alike("200", "201") {
		t.Error("answers are alike but for the order of managers, and for nothing else")
	}
}

//go:build race || assertions

package assert

// On says whether this build counts.
const On = true

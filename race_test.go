//go:build race

package tidings_test

func init() { raceEnabled = true }

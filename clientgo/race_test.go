//go:build race

package clientgo_test

func init() { raceEnabled = true }

//go:build race

package faultproof_test

const raceEnabled = true

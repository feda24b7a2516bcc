//go:build !race

package faultproof_test

const raceEnabled = false

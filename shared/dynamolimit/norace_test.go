//go:build !race

package dynamolimit_test

const thorough = true

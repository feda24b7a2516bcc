//go:build race

package dynamolimit_test

// thorough says that the slower tests go through all cases. Under the race detector,
// where everything takes several times as long, they go through a part of them.
const thorough = false

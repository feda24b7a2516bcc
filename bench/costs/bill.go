package main

import (
	"fmt"
	"strings"
)

// price is what one unit costs.
type price struct {
	unit    string
	dollars float64 // per million units
}

// List prices in us-east-1 in December 2026, without free tiers and discounts.
var (
	s3Put      = price{"PUT", 5}
	s3List     = price{"LIST", 5}
	s3Get      = price{"GET", 0.4}
	s3Delete   = price{"DELETE", 0}
	tableWrite = price{"DynamoDB write", 0.625}
	tableRead  = price{"DynamoDB read", 0.125}
	schedule   = price{"schedule", 1}
	invocation = price{"invocation", 0.2}
	gbSecond   = price{"GB-second", 13.3334} // arm64
	transition = price{"state transition", 25}
	durable    = price{"durable operation", 8}
	queueCall  = price{"SQS request", 0.4}
)

// item is a number of units.
type item struct {
	n float64 // millions
	price
}

// bill is what something costs.
type bill []item

func (b bill) sum() float64 {
	var sum float64
	for _, i := range b {
		sum += i.n * i.dollars
	}
	return sum
}

func (b bill) String() string {
	if len(b) == 0 {
		return "nothing"
	}
	parts := make([]string, len(b))
	for i, item := range b {
		parts[i] = fmt.Sprintf("%s %s × $%s", number(item.n), item.unit, number(item.dollars))
	}
	return fmt.Sprintf("%s = $%.2f", strings.Join(parts, " + "), b.sum())
}

// number writes a number with as many decimals as it has, four at most.
func number(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.4f", x), "0"), ".")
}

// times is a bill n times.
func (b bill) times(n float64) bill {
	all := make(bill, len(b))
	for i, item := range b {
		all[i] = item
		all[i].n *= n
	}
	return all
}

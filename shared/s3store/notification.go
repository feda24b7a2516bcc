package s3store

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// KeyFilter is which keys a notification of a bucket is for. Both are empty for all.
func KeyFilter(f *types.NotificationConfigurationFilter) (prefix, suffix string) {
	if f == nil || f.Key == nil {
		return "", ""
	}
	for _, rule := range f.Key.FilterRules {
		switch strings.ToLower(string(rule.Name)) {
		case "prefix":
			prefix = aws.ToString(rule.Value)
		case "suffix":
			suffix = aws.ToString(rule.Value)
		}
	}
	return prefix, suffix
}

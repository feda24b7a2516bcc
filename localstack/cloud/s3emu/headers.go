package s3emu

import "strings"

// refused are headers that ask for something this server does not do. They
// are refused, so that nobody relies on a lock or on encryption that is not
// there.
var refused = []string{
	"x-amz-object-lock-", "x-amz-server-side-encryption-customer-", "x-amz-copy-source-server-side-encryption-customer-",
	"x-amz-write-offset-bytes", "x-amz-bypass-governance-retention", "x-amz-if-match-",
}

func (r *request) checkHeaders() error {
	for name := range r.Header {
		for _, prefix := range refused {
			if strings.HasPrefix(strings.ToLower(name), prefix) {
				return headerNotImplemented(name)
			}
		}
	}
	return nil
}

package s3emu

import (
	"encoding/xml"
	"strings"
)

// Notification is one entry of a bucket's notification configuration: the
// events it asks for and where they go.
type Notification struct {
	ID     string
	ARN    string   // of the Lambda function, queue or topic
	Events []string // patterns such as "s3:ObjectCreated:*"
	Prefix string   // of the keys, as stored
	Suffix string
}

// Matches tells whether the notification asks for an event.
func (n Notification) Matches(e Event) bool {
	if !strings.HasPrefix(e.Key, n.Prefix) || !strings.HasSuffix(e.Key, n.Suffix) {
		return false
	}
	name := "s3:" + string(e.Name)
	for _, pattern := range n.Events {
		if group, ok := strings.CutSuffix(pattern, "*"); pattern == name || ok && strings.HasPrefix(name, group) {
			return true
		}
	}
	return false
}

// Notifications returns what the bucket's notification configuration asks
// for, nothing when the bucket does not exist. Delivering is up to the
// caller, see Options.OnEvent.
func (s *Server) Notifications(bucket string) []Notification {
	s.mu.RLock()
	defer s.mu.RUnlock()
	b, ok := s.state.Buckets[bucket]
	if !ok || b.Configurations[notificationSubresource] == nil {
		return nil
	}
	notifications, err := parseNotifications(b.Configurations[notificationSubresource])
	if err != nil {
		return nil // refused when it was put
	}
	return notifications
}

type notificationDocument struct {
	XMLName   xml.Name            `xml:"NotificationConfiguration"`
	Functions []notificationEntry `xml:"CloudFunctionConfiguration"`
	Queues    []notificationEntry `xml:"QueueConfiguration"`
	Topics    []notificationEntry `xml:"TopicConfiguration"`
}

type notificationEntry struct {
	ID       string   `xml:"Id"`
	Function string   `xml:"CloudFunction"`
	Queue    string   `xml:"Queue"`
	Topic    string   `xml:"Topic"`
	Events   []string `xml:"Event"`
	Rules    []struct {
		Name  string `xml:"Name"`
		Value string `xml:"Value"`
	} `xml:"Filter>S3Key>FilterRule"`
}

func parseNotifications(doc []byte) ([]Notification, error) {
	var d notificationDocument
	if xml.Unmarshal(doc, &d) != nil {
		return nil, malformedXML()
	}
	var notifications []Notification
	for _, entries := range [][]notificationEntry{d.Functions, d.Queues, d.Topics} {
		for _, e := range entries {
			n := Notification{ID: e.ID, ARN: e.Function + e.Queue + e.Topic, Events: e.Events}
			if n.ARN == "" || len(n.Events) == 0 {
				return nil, malformedXML()
			}
			for _, rule := range e.Rules {
				switch strings.ToLower(rule.Name) {
				case "prefix":
					n.Prefix = rule.Value
				case "suffix":
					n.Suffix = rule.Value
				default:
					return nil, invalidArgument("filter rule name must be either prefix or suffix", "FilterRule", rule.Name)
				}
			}
			notifications = append(notifications, n)
		}
	}
	return notifications, nil
}

package tenancy

import "strings"

// Used returns the number of applications in a queue and the queues below it, and of their selected
// clusters.
func (m *Members) Used(queue string) Quota { return m.at(strings.ToLower(queue)).total }

package tenancy

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"
)

// Holder holds the configuration that is in force. Its zero value holds none. All methods may be called at once.
type Holder struct {
	current  atomic.Pointer[Config]
	updating sync.Mutex
	checksum [sha256.Size]byte // of the text in force
}

// Load returns the configuration in force: the latest valid one, or nil if there has been none.
func (h *Holder) Load() *Config { return h.current.Load() }

// Update puts a text in force, in one step for all who read. A text that is not valid changes nothing, and its error is of type
// Problems. The text that is in force already is not even read. Changed says whether Load now returns another configuration.
func (h *Holder) Update(text []byte) (changed bool, warnings []Problem, err error) {
	h.updating.Lock()
	defer h.updating.Unlock()
	checksum := sha256.Sum256(text)
	if h.current.Load() != nil && checksum == h.checksum {
		return false, nil, nil
	}
	config, warnings, err := Parse(text)
	if err != nil {
		return false, warnings, err
	}
	h.checksum = checksum
	h.current.Store(config)
	return true, warnings, nil
}

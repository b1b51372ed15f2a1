package generator

import (
	"errors"
	"sync"
)

const (
	// maxAnswers is how many answers are made at a time.
	maxAnswers = 32
	// maxOfOne is how many answers are made at a time for one user, or are not read yet, and how
	// many are made about Placements of one namespace. Argo CD, which is one user, asks ten at a
	// time by default.
	maxOfOne = 16
)

var (
	errFull      = errors.New("too many requests at once")
	errUser      = errors.New("too many requests of this user at once")
	errNamespace = errors.New("too many requests for this namespace at once")
)

// slots bounds the answers that are made at a time, and those that a user has not read. The zero
// value is ready for use.
type slots struct {
	mu         sync.Mutex
	all        int
	users      map[string]int
	namespaces map[string]int
}

// slot is one answer.
type slot struct {
	*slots
	user, namespace string
}

// take takes a slot: for the answer until made is called, and for the user until sent is.
func (s *slots) take(user, namespace string) (*slot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.users[user] >= maxOfOne:
		return nil, errUser
	case s.namespaces[namespace] >= maxOfOne:
		return nil, errNamespace
	case s.all >= maxAnswers:
		return nil, errFull
	}
	if s.users == nil {
		s.users, s.namespaces = map[string]int{}, map[string]int{}
	}
	s.all++
	add(s.users, user, 1)
	add(s.namespaces, namespace, 1)
	return &slot{s, user, namespace}, nil
}

func (s *slot) made() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	add(s.namespaces, s.namespace, -1)
}

func (s *slot) sent() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	add(s.users, s.user, -1)
}

func add(counts map[string]int, name string, n int) {
	if counts[name] += n; counts[name] == 0 {
		delete(counts, name)
	}
}

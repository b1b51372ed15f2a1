package generator

import (
	"errors"
	"sync"
)

const (
	// maxAnswers is how many answers are made at a time.
	maxAnswers = 32
	// maxOfOne is how many of them one user may ask for, and how many may be about Placements of
	// one namespace. Argo CD, which is one user, asks ten at a time by default.
	maxOfOne = 16
)

var (
	errFull      = errors.New("too many requests at once")
	errUser      = errors.New("too many requests of this user at once")
	errNamespace = errors.New("too many requests for this namespace at once")
)

// slots bounds the answers that are made at a time. The zero value is ready for use.
type slots struct {
	mu         sync.Mutex
	all        int
	users      map[string]int
	namespaces map[string]int
}

// take takes a slot for a user and a namespace, until give is called.
func (s *slots) take(user, namespace string) (give func(), err error) {
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
	s.add(user, namespace, 1)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.add(user, namespace, -1)
	}, nil
}

func (s *slots) add(user, namespace string, n int) {
	s.all += n
	if s.users[user] += n; s.users[user] == 0 {
		delete(s.users, user)
	}
	if s.namespaces[namespace] += n; s.namespaces[namespace] == 0 {
		delete(s.namespaces, namespace)
	}
}

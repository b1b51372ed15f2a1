package server

import (
	"context"
	"io"
	"sync"
)

// stream is the body of a watch: what is written to it can be read until it is closed.
type stream struct {
	mu     sync.Mutex
	wake   *sync.Cond
	buffer []byte
	closed bool
	stop   func() bool
}

// newStream returns a stream that ends with the context of its request.
func newStream(ctx context.Context) *stream {
	b := &stream{}
	b.wake = sync.NewCond(&b.mu)
	b.stop = context.AfterFunc(ctx, func() { _ = b.Close() })
	return b
}

func (b *stream) write(data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.buffer = append(b.buffer, data...)
	b.wake.Broadcast()
}

// Read implements io.Reader.
func (b *stream) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.buffer) == 0 {
		if b.closed {
			return 0, io.EOF
		}
		b.wake.Wait()
	}
	n := copy(p, b.buffer)
	b.buffer = b.buffer[n:]
	return n, nil
}

// Close implements io.Closer.
func (b *stream) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.stop()
	b.wake.Broadcast()
	return nil
}

func (b *stream) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

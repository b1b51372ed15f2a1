//go:build !linux

package world

import "errors"

func stopInterruptions(int) error { return errors.ErrUnsupported }

package replay

// SetMaxSize sets how much of a recording is kept at one time, until the end of a test.
func SetMaxSize(size int64) (restore func()) {
	before := maxSize
	maxSize = size
	return func() { maxSize = before }
}

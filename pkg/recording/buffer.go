package recording

// buffer has the items that wait for the disk, in their order. size is the sum of their sizes,
// byShare that of each share.
type buffer struct {
	items   []*item
	size    int64
	byShare map[string]int64
}

func (b *buffer) add(it *item) {
	b.items = append(b.items, it)
	b.size += it.size
	b.byShare[it.share] += it.size
}

// take removes the first item and returns it; nil if there is none.
func (b *buffer) take() *item {
	if len(b.items) == 0 {
		return nil
	}
	it := b.items[0]
	b.items[0] = nil
	if b.items = b.items[1:]; len(b.items) == 0 {
		b.items = nil
	}
	b.size -= it.size
	if b.byShare[it.share] -= it.size; b.byShare[it.share] == 0 {
		delete(b.byShare, it.share)
	}
	return it
}

package clustercel

import (
	"cmp"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// adapter converts Go values to CEL values. Its maps are iterated in the order of their keys: the
// random order of CEL's own maps could change results and costs.
type adapter struct{}

// NativeToValue implements types.Adapter.
func (a adapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case map[string]any:
		return orderedMap{types.NewStringInterfaceMap(a, v)}
	case []any:
		return types.NewDynamicList(a, v)
	}
	return types.DefaultTypeAdapter.NativeToValue(value)
}

// ordered returns the value; a map is then iterated in the order of its keys.
func ordered(v ref.Val) ref.Val {
	if m, ok := v.(traits.Mapper); ok {
		return orderedMap{m}
	}
	return v
}

// unordered returns the map for iteration in any order, which is faster.
func unordered(m traits.Mapper) traits.Mapper {
	switch m := m.(type) {
	case orderedMap:
		return m.Mapper
	case *clusterValue:
		return unordered(m.Mapper)
	}
	return m
}

type orderedMap struct{ traits.Mapper }

// Find implements traits.Mapper. Each lookup hashes the key at a fixed cost, so long keys are
// rejected.
func (m orderedMap) Find(key ref.Val) (ref.Val, bool) {
	if textLength(key) > maxKey {
		cancelEvaluation()
	}
	return m.Mapper.Find(key)
}

// Get implements traits.Indexer.
func (m orderedMap) Get(key ref.Val) ref.Val {
	if textLength(key) > maxKey {
		cancelEvaluation()
	}
	return m.Mapper.Get(key)
}

// Contains implements traits.Container.
func (m orderedMap) Contains(key ref.Val) ref.Val {
	_, found := m.Find(key)
	return types.Bool(found)
}

// IsZeroValue implements traits.Zeroer.
func (m orderedMap) IsZeroValue() bool { return m.Size() == types.IntZero }

// Iterator implements traits.Iterable.
func (m orderedMap) Iterator() traits.Iterator {
	keys := make([]ref.Val, 0, int(m.Size().(types.Int)))
	for it := m.Mapper.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	slices.SortFunc(keys, compareKeys)
	return types.NewRefValList(types.DefaultTypeAdapter, keys).Iterator()
}

// compareKeys orders keys of one map by type, then value.
func compareKeys(a, b ref.Val) int {
	if by := cmp.Compare(a.Type().TypeName(), b.Type().TypeName()); by != 0 {
		return by
	}
	if comparer, ok := a.(traits.Comparer); ok {
		by, _ := comparer.Compare(b).(types.Int)
		return int(by)
	}
	return 0
}

package recording

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// appendEntry appends an entry as JSON, and a line feed. encoding/json would change values:
// metav1.Time loses fractions of seconds, Quantity its exponent, and an empty list becomes none.
// Here only zero values are left out, and encoding/json reads each other value back as it was.
func appendEntry(text []byte, e *Written) ([]byte, error) {
	text, err := appenderOf(reflect.TypeFor[Written]())(text, reflect.ValueOf(e).Elem())
	return append(text, '\n'), err
}

// appender appends the JSON of a value of one type.
type appender func(text []byte, v reflect.Value) ([]byte, error)

// appenders are those of known types.
var appenders sync.Map

func appenderOf(t reflect.Type) appender {
	if known, ok := appenders.Load(t); ok {
		return known.(appender)
	}
	a := newAppender(t)
	appenders.Store(t, a)
	return a
}

func newAppender(t reflect.Type) appender {
	switch t {
	case reflect.TypeFor[time.Time]():
		return appendTime
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return func(text []byte, v reflect.Value) ([]byte, error) { return appendTime(text, v.Field(0)) }
	case reflect.TypeFor[resource.Quantity]():
		return func(text []byte, v reflect.Value) ([]byte, error) {
			return append(text, quantityJSON(v.Interface().(resource.Quantity))...), nil
		}
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		return appendOther
	}
	switch t.Kind() {
	case reflect.Interface:
		return orNull(func(text []byte, v reflect.Value) ([]byte, error) { return appenderOf(v.Elem().Type())(text, v.Elem()) })
	case reflect.Pointer:
		elem := appenderOf(t.Elem())
		return orNull(func(text []byte, v reflect.Value) ([]byte, error) { return elem(text, v.Elem()) })
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			return listAppender(t)
		}
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return mapAppender(t)
		}
	case reflect.Struct:
		return structAppender(t)
	}
	return appendBasic
}

// appendBasic appends a value that has no parts.
func appendBasic(text []byte, v reflect.Value) ([]byte, error) {
	switch v.Kind() {
	case reflect.String:
		return appendString(text, v.String())
	case reflect.Bool:
		return strconv.AppendBool(text, v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(text, v.Int(), 10), nil
	case reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(text, v.Uint(), 10), nil
	}
	return appendOther(text, v)
}

func orNull(a appender) appender {
	return func(text []byte, v reflect.Value) ([]byte, error) {
		if v.IsNil() {
			return append(text, "null"...), nil
		}
		return a(text, v)
	}
}

func listAppender(t reflect.Type) appender {
	elem := appenderOf(t.Elem())
	return orNull(func(text []byte, v reflect.Value) (_ []byte, err error) {
		text = append(text, '[')
		for i := range v.Len() {
			if i > 0 {
				text = append(text, ',')
			}
			if text, err = elem(text, v.Index(i)); err != nil {
				return text, err
			}
		}
		return append(text, ']'), nil
	})
}

// mapAppender sorts keys, so that the same value has the same text.
func mapAppender(t reflect.Type) appender {
	elem := appenderOf(t.Elem())
	return orNull(func(text []byte, v reflect.Value) (_ []byte, err error) {
		values := make(map[string]reflect.Value, v.Len())
		for each := v.MapRange(); each.Next(); {
			values[each.Key().String()] = each.Value()
		}
		text = append(text, '{')
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if text, err = appendKey(text, key); err != nil {
				return text, err
			}
			if text, err = elem(text, values[key]); err != nil {
				return text, err
			}
		}
		return append(text, '}'), nil
	})
}

// field is a field of a struct.
type field struct {
	index  int
	name   string
	append appender
	// inline are the fields of an embedded struct.
	inline []field
}

func structAppender(t reflect.Type) appender {
	fields := fieldsOf(t)
	return func(text []byte, v reflect.Value) ([]byte, error) {
		text, err := appendFields(append(text, '{'), fields, v)
		return append(text, '}'), err
	}
}

func fieldsOf(t reflect.Type) (fields []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		elem := f.Type
		if elem.Kind() == reflect.Pointer {
			elem = elem.Elem()
		}
		switch {
		case name == "-" || !f.IsExported():
		case f.Anonymous && name == "":
			fields = append(fields, field{index: i, inline: fieldsOf(elem)})
		case name == "":
			fields = append(fields, field{index: i, name: f.Name, append: appenderOf(f.Type)})
		default:
			fields = append(fields, field{index: i, name: name, append: appenderOf(f.Type)})
		}
	}
	return fields
}

func appendFields(text []byte, fields []field, v reflect.Value) (_ []byte, err error) {
	for i := range fields {
		f := &fields[i]
		value := v.Field(f.index)
		switch {
		case value.IsZero():
			continue
		case f.inline != nil:
			text, err = appendFields(text, f.inline, reflect.Indirect(value))
		default:
			if text, err = appendKey(text, f.name); err == nil {
				text, err = f.append(text, value)
			}
		}
		if err != nil {
			return text, err
		}
	}
	return text, nil
}

// appendKey appends the key of the next value in an object.
func appendKey(text []byte, key string) ([]byte, error) {
	if text[len(text)-1] != '{' {
		text = append(text, ',')
	}
	text, err := appendString(text, key)
	return append(text, ':'), err
}

// appendOther appends a value by encoding/json.
func appendOther(text []byte, v reflect.Value) ([]byte, error) {
	if v.CanAddr() {
		v = v.Addr()
	}
	other, err := json.Marshal(v.Interface())
	return append(text, other...), err
}

func appendString(text []byte, value string) ([]byte, error) {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(value)
			return append(text, quoted...), err
		}
	}
	text = append(text, '"')
	text = append(text, value...)
	return append(text, '"'), nil
}

// lastZone is a zone in which a time has four digits for the year if it has in any zone.
func lastZone(year int) *time.Location {
	const day = 24 * 60 * 60
	switch {
	case year > 9999:
		return time.FixedZone("", -day)
	case year < 0:
		return time.FixedZone("", day)
	}
	return time.UTC
}

// appendTime appends a time in UTC, because the offset of a zone can have seconds, which RFC 3339
// cannot express.
func appendTime(text []byte, v reflect.Value) ([]byte, error) {
	var at time.Time
	if v.CanAddr() {
		at = *v.Addr().Interface().(*time.Time)
	} else {
		at = v.Interface().(time.Time)
	}
	at = at.UTC()
	if at = at.In(lastZone(at.Year())); at.Year() < 0 || at.Year() > 9999 {
		return text, fmt.Errorf("no date of RFC 3339: %s", at)
	}
	text = append(text, '"')
	text = at.AppendFormat(text, time.RFC3339Nano)
	return append(text, '"'), nil
}

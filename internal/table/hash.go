package table

import (
	"hash/maphash"
	"math"
	"math/bits"
	"reflect"
	"strings"
)

// Hasher is implemented by values that are only partly the row. It is needed only if a value fills in a cache lazily. For any other value
// Options.Invariants hashes all that the value reaches, except functions, channels, data that the sync packages guard, and the unexported
// state of protobuf messages.
type Hasher interface{ HashRow() uint64 }

// hasher hashes values deeply. It hashes data that several rows share once between resets.
type hasher struct {
	seed maphash.Seed
	memo map[reach]uint64
	open map[reach]bool // pointers being hashed
	cuts int            // how often a pointer led back to an open one
}

// reach is something that a value points to.
type reach struct {
	at  uintptr
	typ reflect.Type
	len int
}

func newHasher() hasher { return hasher{seed: maphash.MakeSeed()} }

func (h *hasher) reset() { h.memo, h.open = map[reach]uint64{}, map[reach]bool{} }

func (h *hasher) of(v any) uint64 { return h.value(reflect.ValueOf(v)) }

// mix adds b to the hash a; the order of the calls counts.
func mix(a, b uint64) uint64 {
	x := (bits.RotateLeft64(a, 23) + b) * 0x9e3779b97f4a7c15
	return (x ^ x>>29) * 0xbf58476d1ce4e5b9
}

func (h *hasher) value(v reflect.Value) uint64 {
	if !v.IsValid() {
		return 1
	}
	if own, ok := ownHash(v); ok {
		return own
	}
	switch v.Kind() {
	case reflect.String:
		return maphash.String(h.seed, v.String())
	case reflect.Pointer:
		if v.Type() == reflect.TypeFor[*tree]() {
			return h.once(reach{v.Pointer(), v.Type(), 1}, func() uint64 { return h.rows((*tree)(v.UnsafePointer())) })
		}
		return h.once(reach{v.Pointer(), v.Type(), 1}, func() uint64 { return h.value(v.Elem()) })
	case reflect.Interface:
		return h.value(v.Elem())
	case reflect.Slice:
		return h.once(reach{v.Pointer(), v.Type(), v.Len()}, func() uint64 { return h.list(v) })
	case reflect.Array:
		return h.list(v)
	case reflect.Map:
		return h.once(reach{v.Pointer(), v.Type(), v.Len()}, func() uint64 { return h.mapping(v) })
	case reflect.Struct:
		return h.fields(v)
	}
	return scalar(v)
}

// ownHash returns the value's own hash, if it has one.
func ownHash(v reflect.Value) (uint64, bool) {
	if !v.CanInterface() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil() {
		return 0, false
	}
	own, ok := v.Interface().(Hasher)
	if !ok {
		return 0, false
	}
	return own.HashRow(), true
}

func scalar(v reflect.Value) uint64 {
	switch {
	case v.CanInt():
		return uint64(v.Int())
	case v.CanUint():
		return v.Uint()
	case v.CanFloat():
		return math.Float64bits(v.Float())
	case v.CanComplex():
		return mix(math.Float64bits(real(v.Complex())), math.Float64bits(imag(v.Complex())))
	case v.Kind() == reflect.Bool && v.Bool():
		return 2
	}
	return 3 // false, functions, channels, unsafe pointers
}

// once hashes the target of a pointer, once. If a result was cut short because the value leads back to itself, it depends on where the walk
// entered the value, so it is not kept.
func (h *hasher) once(r reach, hash func() uint64) uint64 {
	switch {
	case r.at == 0:
		return 4
	case h.open[r]:
		h.cuts++
		return 5
	}
	if sum, known := h.memo[r]; known {
		return sum
	}
	cuts := h.cuts
	h.open[r] = true
	sum := mix(hash(), 6)
	delete(h.open, r)
	if h.cuts == cuts {
		h.memo[r] = sum
	}
	return sum
}

func (h *hasher) list(v reflect.Value) uint64 {
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		return maphash.Bytes(h.seed, v.Bytes())
	}
	sum := uint64(v.Len())
	for i := range v.Len() {
		sum = mix(sum, h.value(v.Index(i)))
	}
	return sum
}

// rows hashes the keys and values of a group, not its cells.
func (h *hasher) rows(t *tree) uint64 {
	sum := uint64(t.len)
	t.all(func(it item) bool {
		sum = mix(sum, h.of(t.source.keys.show(it.key)))
		if it.val != nil {
			sum = mix(sum, h.of(t.source.values.show(it.val)))
		}
		return true
	})
	return sum
}

// mapping adds up the entries, which come in any order.
func (h *hasher) mapping(v reflect.Value) uint64 {
	sum := uint64(v.Len())
	for entries := v.MapRange(); entries.Next(); {
		sum += mix(h.value(entries.Key()), h.value(entries.Value()))
	}
	return sum
}

func (h *hasher) fields(v reflect.Value) uint64 {
	t := v.Type()
	if t.PkgPath() == "sync" || t.PkgPath() == "sync/atomic" || strings.HasPrefix(t.PkgPath(), "internal/sync") {
		return 7
	}
	_, message := reflect.PointerTo(t).MethodByName("ProtoReflect")
	sum := uint64(t.NumField())
	for i := range t.NumField() {
		if !message || t.Field(i).IsExported() {
			sum = mix(sum, h.value(v.Field(i)))
		}
	}
	return sum
}

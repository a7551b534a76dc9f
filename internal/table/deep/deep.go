// Package deep hashes values with all that they reach, except functions, channels, data that the sync packages guard, and the unexported
// state of protobuf messages. Equal values have equal hashes within one process.
package deep

import (
	"hash/maphash"
	"math"
	"math/bits"
	"reflect"
	"strings"
	"unsafe"
)

// Own is implemented by values that are only partly content. It is needed only if a value fills in a cache lazily.
type Own interface{ HashRow() uint64 }

// Hasher hashes values. It hashes data that several values share once between resets. One goroutine may use it.
type Hasher struct {
	seed  maphash.Seed
	apart map[reflect.Type]func(unsafe.Pointer) uint64
	memo  map[reach]uint64
	open  map[reach]bool // pointers being hashed
	cuts  int            // how often a pointer led back to an open one
}

// reach is something that a value points to.
type reach struct {
	at  uintptr
	typ reflect.Type
	len int
}

// New returns a hasher. apart has functions for pointers of some types that are not to be followed as they are.
func New(apart map[reflect.Type]func(unsafe.Pointer) uint64) *Hasher {
	h := &Hasher{seed: maphash.MakeSeed(), apart: apart}
	h.Reset()
	return h
}

// Reset forgets the data that was hashed, which may change from now on.
func (h *Hasher) Reset() { h.memo, h.open = map[reach]uint64{}, map[reach]bool{} }

// Hash returns the hash of a value.
func (h *Hasher) Hash(v any) uint64 { return h.value(reflect.ValueOf(v)) }

// Mix adds b to the hash a. The order of the calls counts.
func Mix(a, b uint64) uint64 {
	x := (bits.RotateLeft64(a, 23) + b) * 0x9e3779b97f4a7c15
	return (x ^ x>>29) * 0xbf58476d1ce4e5b9
}

func (h *Hasher) value(v reflect.Value) uint64 {
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
		if hash := h.apart[v.Type()]; hash != nil {
			return h.once(reach{v.Pointer(), v.Type(), 1}, func() uint64 { return hash(v.UnsafePointer()) })
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
	own, ok := v.Interface().(Own)
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
		return Mix(math.Float64bits(real(v.Complex())), math.Float64bits(imag(v.Complex())))
	case v.Kind() == reflect.Bool && v.Bool():
		return 2
	}
	return 3 // false, functions, channels, unsafe pointers
}

// once hashes the target of a pointer, once. If a result was cut short because the value leads back to itself, it depends on where the walk
// entered the value, so it is not kept.
func (h *Hasher) once(r reach, hash func() uint64) uint64 {
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
	sum := Mix(hash(), 6)
	delete(h.open, r)
	if h.cuts == cuts {
		h.memo[r] = sum
	}
	return sum
}

func (h *Hasher) list(v reflect.Value) uint64 {
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		return maphash.Bytes(h.seed, v.Bytes())
	}
	sum := uint64(v.Len())
	for i := range v.Len() {
		sum = Mix(sum, h.value(v.Index(i)))
	}
	return sum
}

// mapping adds up the entries, which come in any order.
func (h *Hasher) mapping(v reflect.Value) uint64 {
	sum := uint64(v.Len())
	for entries := v.MapRange(); entries.Next(); {
		sum += Mix(h.value(entries.Key()), h.value(entries.Value()))
	}
	return sum
}

func (h *Hasher) fields(v reflect.Value) uint64 {
	t := v.Type()
	if t.PkgPath() == "sync" || t.PkgPath() == "sync/atomic" || strings.HasPrefix(t.PkgPath(), "internal/sync") {
		return 7
	}
	_, message := reflect.PointerTo(t).MethodByName("ProtoReflect")
	sum := uint64(t.NumField())
	for i := range t.NumField() {
		if !message || t.Field(i).IsExported() {
			sum = Mix(sum, h.value(v.Field(i)))
		}
	}
	return sum
}

package amend

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Invalid reports whether the value is invalid in a field that it sets. Most such patches are refused wherever they are applied: they
// are applied alone, so that no later patch hides what is wrong. Required fields that the value lacks do not count, because what it is
// merged into has them.
func (p *Patch) Invalid() bool { return p.invalid }

// checkValue tells whether a value, or what is packed in it, is invalid.
func (p *Patch) checkValue() bool {
	if invalid(p.value) {
		return true
	}
	for _, m := range p.sources {
		if invalid(m) {
			return true
		}
	}
	return false
}

func invalid(m proto.Message) bool {
	v, ok := m.(interface{ ValidateAll() error })
	return ok && setsInvalid(m.ProtoReflect(), v.ValidateAll())
}

// setsInvalid reports whether an error of generated validation is about a field that the message sets.
func setsInvalid(m protoreflect.Message, err error) bool {
	if many, ok := err.(interface{ AllErrors() []error }); ok {
		for _, one := range many.AllErrors() {
			if setsInvalid(m, one) {
				return true
			}
		}
		return false
	}
	one, ok := err.(interface {
		Field() string
		Cause() error
	})
	if !ok {
		return err != nil
	}
	name, index, _ := strings.Cut(strings.TrimSuffix(one.Field(), "]"), "[")
	fd := fieldNamed(m, name)
	switch {
	case fd == nil || !m.Has(fd):
		return false
	case one.Cause() == nil || fd.Message() == nil || fd.IsMap():
		return true
	case !fd.IsList():
		return setsInvalid(m.Get(fd).Message(), one.Cause())
	}
	at, err := strconv.Atoi(index)
	list := m.Get(fd).List()
	return err != nil || at < 0 || at >= list.Len() || setsInvalid(list.Get(at).Message(), one.Cause())
}

// fieldNamed finds a field by its name in Go; nil: it is a oneof's.
func fieldNamed(m protoreflect.Message, name string) protoreflect.FieldDescriptor {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if strings.EqualFold(strings.ReplaceAll(string(fields.Get(i).Name()), "_", ""), strings.ReplaceAll(name, "_", "")) {
			return fields.Get(i)
		}
	}
	return nil
}

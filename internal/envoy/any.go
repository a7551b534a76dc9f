package envoy

import (
	"bytes"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

const (
	typePrefix = "type.googleapis.com/"
	// refused is the type of an Any that replaces a message which failed its own validation; its value is the error. It never leaves the
	// program: no message that holds one is encoded.
	refused = typePrefix + "fairway.Refused"
)

// Any packs an extension's configuration, deterministically. It validates the message here, once, because generated validation does not
// look into an Any. If it is invalid, Encode fails for the message that contains the Any.
func Any(m proto.Message) *anypb.Any {
	body, err := Marshal(m)
	if err != nil {
		return &anypb.Any{TypeUrl: refused, Value: []byte(err.Error())}
	}
	return &anypb.Any{TypeUrl: typePrefix + string(m.ProtoReflect().Descriptor().FullName()), Value: body}
}

// Bytes marshals a part of a message, which need not be valid alone, deterministically.
func Bytes(m proto.Message) ([]byte, error) {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return body, nil
}

// Marshal validates m and marshals it, as Encode does. The bytes are the caller's.
func Marshal(m proto.Message) ([]byte, error) {
	if err := validate(m); err != nil {
		return nil, err
	}
	body, err := Bytes(m)
	if err != nil {
		return nil, err
	}
	return body, packed(m, body)
}

// Check returns the error that Marshal would return for m, if m is encoded already. parts are the encoded parts of m; together they are
// all of m.
func Check(m proto.Message, parts ...[]byte) error {
	if err := validate(m); err != nil {
		return err
	}
	for _, part := range parts {
		if err := packed(m, part); err != nil {
			return err
		}
	}
	return nil
}

func validate(m proto.Message) error {
	if v, ok := m.(interface{ ValidateAll() error }); ok {
		return v.ValidateAll()
	}
	return nil
}

// packed returns the validation errors of the messages that are packed into m. A search through the bytes costs next to nothing; a walk
// through the message costs as much as encoding it.
func packed(m proto.Message, body []byte) error {
	if !bytes.Contains(body, []byte(refused)) {
		return nil
	}
	return refusal(m.ProtoReflect())
}

// refusal returns the validation errors of all messages that are packed into m at any depth; nil if there are none.
func refusal(m protoreflect.Message) error {
	if a, ok := m.Interface().(*anypb.Any); ok {
		if a.GetTypeUrl() == refused {
			return errors.New(string(a.GetValue()))
		}
		return nil
	}
	var errs []error
	add := func(v protoreflect.Message) { errs = append(errs, refusal(v)) }
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { add(v.Message()); return true })
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				add(v.List().Get(i).Message())
			}
		default:
			add(v.Message())
		}
		return true
	})
	return errors.Join(errs...)
}

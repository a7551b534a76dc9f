package answers

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairway/internal/printable"
	"fairway/internal/weigh"
)

// Bounds of one object in an answer. An API server stores objects of about 1.5 MiB.
const (
	maxItem   = 3 << 20
	richItem  = 64 << 10 // a larger object of another cluster has its values counted before it is decoded
	maxValues = 250_000  // of such an object
)

// Item is an object of Kubernetes' own that reads itself.
type Item interface {
	runtime.Object
	Unmarshal([]byte) error
}

// stream reads a list object by object, so that no more than one of them is decoded at a time.
type stream struct {
	from *bufio.Reader
	make func() Item
	each func(runtime.Object) error
	wary bool // the API server is not trusted
	meta metav1.ListMeta
}

// read reads the answer to a question for a list, as protobuf or as JSON.
func (s *stream) read() error {
	head, err := s.from.Peek(len(protobufMagic))
	if err != nil && len(head) == 0 {
		return fmt.Errorf("the answer is empty: %w", err)
	}
	if string(head) != protobufMagic {
		return s.json()
	}
	_, _ = s.from.Discard(len(protobufMagic)) // it has been looked at
	return s.envelope()
}

// protobufMagic begins what Kubernetes writes as protobuf: an envelope (runtime.Unknown) that has the object in its second field.
const protobufMagic = "k8s\x00"

var errNoProtobuf = errors.New("the answer is not a protobuf message of Kubernetes")

func (s *stream) envelope() error {
	there := false
	err := fields(s.from, func(number protowire.Number, size int64, from *bufio.Reader) error {
		switch number {
		case 1:
			text, err := take(from, size)
			if err != nil {
				return err
			}
			return s.kindIs(protobufText(text, 2))
		case 2:
			there = true
			inside := &io.LimitedReader{R: from, N: size}
			if err := fields(bufio.NewReader(inside), s.part); err != nil || inside.N == 0 {
				return err
			}
			return io.ErrUnexpectedEOF
		}
		return skip(from, size)
	})
	if err == nil && !there {
		return errNoProtobuf
	}
	return err
}

// kindIs returns an error if an answer has a wrong kind. An answer need not have one.
func (s *stream) kindIs(kind string) error {
	if want := reflect.TypeOf(s.make()).Elem().Name() + "List"; kind != "" && kind != want {
		return fmt.Errorf("the answer is a %q, not a %s", printable.Text(kind, printable.Short), want)
	}
	return nil
}

// part reads one field of a list: its metadata, or an object.
func (s *stream) part(number protowire.Number, size int64, from *bufio.Reader) error {
	if number != 1 && number != 2 {
		return skip(from, size)
	}
	text, err := take(from, size)
	if err != nil {
		return err
	}
	if number == 1 {
		return s.meta.Unmarshal(text)
	}
	if s.wary && len(text) > richItem && weigh.Values(text, deepest, maxValues) > maxValues {
		return errRich
	}
	o := s.make()
	if err := o.Unmarshal(text); err != nil {
		return fmt.Errorf("an object cannot be read: %w", err)
	}
	return s.each(o)
}

var errRich = fmt.Errorf("an object has more than %d values", maxValues)

// fields calls each for the fields of a message that have a length, until from ends. each reads all of its field.
func fields(from *bufio.Reader, each func(number protowire.Number, size int64, from *bufio.Reader) error) error {
	for {
		tag, err := binary.ReadUvarint(from)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		number, typ := protowire.DecodeTag(tag)
		switch typ {
		case protowire.BytesType:
			size, err := binary.ReadUvarint(from)
			if err != nil {
				return err
			}
			if size > maxAnswer*16 || number < 1 {
				return errNoProtobuf
			}
			if err := each(number, int64(size), from); err != nil {
				return err
			}
		case protowire.VarintType:
			if _, err := binary.ReadUvarint(from); err != nil {
				return err
			}
		default:
			return errNoProtobuf
		}
	}
}

// take reads one field as a whole.
func take(from io.Reader, size int64) ([]byte, error) {
	if size > maxItem {
		return nil, fmt.Errorf("an object has %d bytes, %d are the most that are read", size, maxItem)
	}
	var out bytes.Buffer // grows with the bytes that come, not with the announced size
	if _, err := io.CopyN(&out, from, size); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return out.Bytes(), nil
}

func skip(from io.Reader, size int64) error {
	_, err := io.CopyN(io.Discard, from, size)
	return err
}

// protobufText returns the text in a field of a message; empty: it has none.
func protobufText(message []byte, field protowire.Number) string {
	for len(message) > 0 {
		number, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return ""
		}
		message = message[n:]
		if number == field && typ == protowire.BytesType {
			text, n := protowire.ConsumeBytes(message)
			if n < 0 {
				return ""
			}
			return string(text)
		}
		if n = protowire.ConsumeFieldValue(number, typ, message); n < 0 {
			return ""
		}
		message = message[n:]
	}
	return ""
}

// deepest is how many messages within each other have their values counted.
const deepest = 8

// json reads a list as JSON.
func (s *stream) json() error {
	d := json.NewDecoder(s.from)
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("the answer is neither protobuf nor JSON of an object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		switch name {
		case "kind":
			var kind string
			if err := d.Decode(&kind); err != nil {
				return err
			}
			if err := s.kindIs(kind); err != nil {
				return err
			}
		case "metadata":
			if err := d.Decode(&s.meta); err != nil {
				return err
			}
		case "items":
			if err := s.items(d); err != nil {
				return err
			}
		default:
			var other json.RawMessage
			if err := d.Decode(&other); err != nil {
				return err
			}
		}
	}
	_, err := d.Token()
	return err
}

func (s *stream) items(d *json.Decoder) error {
	t, err := d.Token()
	if err != nil || t == nil { // null
		return err
	}
	if t != json.Delim('[') {
		return errors.New("items: want a list")
	}
	for d.More() {
		var text json.RawMessage
		if err := d.Decode(&text); err != nil {
			return err
		}
		if err := sized(text, s.wary); err != nil {
			return err
		}
		o := s.make()
		if err := json.Unmarshal(text, o); err != nil {
			return fmt.Errorf("an object cannot be read: %w", err)
		}
		if err := s.each(o); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// sized returns an error if an object is too large to be decoded, or would be too large once it is decoded.
func sized(text []byte, wary bool) error {
	switch {
	case len(text) > maxItem:
		return fmt.Errorf("an object has %d bytes, %d are the most that are read", len(text), maxItem)
	case !wary || len(text) <= richItem:
		return nil
	case bytes.HasPrefix(text, []byte(protobufMagic)):
		if weigh.Values(text[len(protobufMagic):], deepest, maxValues) > maxValues {
			return errRich
		}
	case bytes.Count(text, []byte{','})+bytes.Count(text, []byte{'{'}) > maxValues:
		return errRich
	}
	return nil
}

// wary is a decoder of single objects of an API server that is not trusted: those of watches.
type wary struct{ runtime.Decoder }

// Decode is runtime.Decoder's.
func (w wary) Decode(
	text []byte, defaults *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	if err := sized(text, true); err != nil {
		return nil, nil, err
	}
	return w.Decoder.Decode(text, defaults, into)
}

// waryCodecs are codecs with wary decoders.
type waryCodecs struct{ runtime.NegotiatedSerializer }

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (c waryCodecs) DecoderToVersion(d runtime.Decoder, v runtime.GroupVersioner) runtime.Decoder {
	return wary{c.NegotiatedSerializer.DecoderToVersion(d, v)}
}

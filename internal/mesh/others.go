package mesh

import (
	"strings"
	"unique"
)

// Others are the further addresses of an endpoint with more than one. They are comparable, and of the size of a pointer: hardly any
// endpoint has some. The zero Others is empty.
type Others struct{ joined unique.Handle[string] }

// MakeOthers makes them of a list in order.
func MakeOthers(addresses ...string) Others {
	if len(addresses) == 0 {
		return Others{}
	}
	return Others{unique.Make(strings.Join(addresses, ","))}
}

// List is the addresses in order.
func (o Others) List() []string {
	if o == (Others{}) {
		return nil
	}
	return strings.Split(o.joined.Value(), ",")
}

// String is the addresses with commas between.
func (o Others) String() string { return strings.Join(o.List(), ",") }

// MarshalText returns String, for files on disk.
func (o Others) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (o *Others) UnmarshalText(text []byte) error {
	*o = Others{}
	if len(text) > 0 {
		*o = MakeOthers(string(text))
	}
	return nil
}

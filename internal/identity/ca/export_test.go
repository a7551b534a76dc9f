package ca

import (
	"encoding/json"
	"fairway/internal/identity/ca/issued"
	"fmt"
	"log/slog"
)

// LogKeys logs the key and everything that holds it.
func (c *CA) LogKeys(log *slog.Logger) {
	log.Info("keys", "key", c.state.active.key, "signer", c.state.active, "value", *c.state.active, "state", c.state, "ca", c)
}

// PrintKeys prints and encodes the key and everything that holds it, in every way there is.
func (c *CA) PrintKeys() (out string) {
	type holder struct {
		K key
		k key
	}
	h := holder{c.state.active.key, c.state.active.key}
	for _, v := range []any{
		c.state.active.key,
		&c.state.active.key,
		h,
		&h,
		*c.state.active,
		*c.state,
		[]key{h.k},
		map[string]key{"a": h.k},
	} {
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			out += fmt.Sprintf(format+"\n", v)
		}
		if text, err := json.Marshal(v); err == nil {
			out += string(text)
		}
	}
	return out
}

// Follow reads the revocations again, as Run does when the folder changes.
func (c *CA) Follow() error { return c.followRevoked() }

// ReadState, ReadRevoked and ReadRecord read the contents of the folder's files.
func ReadState(text []byte) error {
	var f kept
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	_, err := f.state()
	return err
}

func ReadRevoked(text []byte) (*Revoked, error) {
	out := &Revoked{}
	return out, out.read(text)
}

func ReadRecord(line string) (serial string, ok bool) {
	r, ok := issued.Parse(line)
	return r.Serial, ok
}

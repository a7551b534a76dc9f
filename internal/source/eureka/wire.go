package eureka

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"fairway/internal/source/platform"
)

// answer is what a server says at once, but for its applications.
type answer struct {
	hash string // instances counted by status: "DOWN_1_UP_12_"
}

// maxInstance is how many bytes an instance may have. One with more is left out.
const maxInstance = 1 << 20

// taker takes what an answer lists, one instance after another, so that no more of it is held than one. in is nil where an instance
// has more than maxInstance bytes.
type taker func(app string, in *instance)

// read reads an answer of /apps or /apps/delta as it comes. If it returns an error, nothing that it handed over counts.
func read(from io.Reader, take taker) (out answer, err error) {
	n := 0
	each := func(app string, in *instance) error {
		if n++; n > platform.MostListed {
			return fmt.Errorf("it has more than %d instances", platform.MostListed)
		}
		take(app, in)
		return nil
	}
	s := platform.NewStream(from)
	found := false
	_, err = s.Object(func(name string) error {
		if name != "applications" {
			return s.Skip()
		}
		found = true
		_, err := s.Object(func(name string) (err error) {
			switch name {
			case "apps__hashcode":
				out.hash, err = s.String(maxInstance)
				return err
			case "application":
				return elements(s, func() error { return readApplication(s, each) })
			}
			return s.Skip()
		})
		return err
	})
	if err == nil && !found {
		err = errors.New("it lists no applications")
	}
	if err != nil {
		return answer{}, fmt.Errorf("the answer is not valid for Eureka: %w", err)
	}
	return out, nil
}

func readApplication(s *platform.Stream, each func(app string, in *instance) error) error {
	var app string
	_, err := s.Object(func(name string) (err error) {
		switch name {
		case "name":
			app, err = s.String(maxInstance)
			return err
		case "instance":
			return elements(s, func() error {
				var in instance
				ok, err := s.Decode(&in, maxInstance)
				switch {
				case err != nil:
					return err
				case !ok:
					return each(app, nil)
				}
				return each(cmp.Or(app, in.App), &in)
			})
		}
		return s.Skip()
	})
	return err
}

// elements reads a list. A list of one element may come without its brackets, as older servers write it.
func elements(s *platform.Stream, each func() error) error {
	c, err := s.Peek()
	switch {
	case err != nil:
		return err
	case c == '{':
		return each()
	}
	return s.Array(each)
}

// instance is one as servers write it.
type instance struct {
	App        string `json:"app"`
	ID         string `json:"instanceId"` // older servers have none
	Host       string `json:"hostName"`
	Address    string `json:"ipAddr"`
	Status     string `json:"status"`
	Port       port   `json:"port"`
	SecurePort port   `json:"securePort"`
	Center     struct {
		Name     string `json:"name"`
		Metadata words  `json:"metadata"`
	} `json:"dataCenterInfo"`
	Metadata  words  `json:"metadata"`
	VIP       string `json:"vipAddress"`
	SecureVIP string `json:"secureVipAddress"`
	Updated   number `json:"lastUpdatedTimestamp"` // milliseconds, by the server's clock
	Action    string `json:"actionType"`           // what became of it, in a delta
}

// deleted is the action of an instance that was removed.
const deleted = "DELETED"

// number is a number, perhaps in quotes. Anything else is 0.
type number int64

// UnmarshalJSON reads both forms.
func (n *number) UnmarshalJSON(text []byte) error {
	v, err := strconv.ParseInt(string(bytes.Trim(text, `"`)), 10, 64)
	if err != nil {
		v = 0
	}
	*n = number(v)
	return nil
}

// port is a port: {"$": 8080, "@enabled": "true"}. One that is not enabled is 0.
type port uint32

// UnmarshalJSON reads it, and a mere number.
func (p *port) UnmarshalJSON(text []byte) error {
	*p = 0
	if len(text) == 0 || text[0] != '{' {
		var n number
		_ = n.UnmarshalJSON(text) // never fails
		*p = port(max(min(n, 1<<16), 0))
		return nil
	}
	var is struct {
		Number  number          `json:"$"`
		Enabled json.RawMessage `json:"@enabled"`
	}
	if err := json.Unmarshal(text, &is); err != nil {
		return err
	}
	if string(bytes.Trim(is.Enabled, `"`)) == "true" {
		*p = port(max(min(is.Number, 1<<16), 0)) // one that is too great is reported where rows are built
	}
	return nil
}

// words are metadata. Values that are not strings are what they look like; lists and objects are left out, and the name of the class
// that servers write.
type words map[string]string

// UnmarshalJSON reads them.
func (w *words) UnmarshalJSON(text []byte) error {
	if len(text) == 0 || text[0] != '{' {
		return nil // as some write where there are none
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil || len(all) == 0 {
		return err
	}
	out := make(words, len(all))
	for k, v := range all {
		switch {
		case k == "@class" || len(v) == 0 || v[0] == '{' || v[0] == '[' || v[0] == 'n':
		case v[0] == '"':
			var s string
			if err := json.Unmarshal(v, &s); err != nil {
				return err
			}
			out[k] = s
		default:
			out[k] = string(v)
		}
	}
	*w = out
	return nil
}

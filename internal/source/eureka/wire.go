package eureka

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
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

// read reads an answer of /apps or /apps/delta. What it handed over counts only where it returns no error.
func read(from io.Reader, each taker) (out answer, err error) {
	d := json.NewDecoder(from)
	found := false
	err = fields(d, func(name string) error {
		if name != "applications" {
			return skip(d)
		}
		found = true
		return fields(d, func(name string) error {
			switch name {
			case "apps__hashcode":
				return d.Decode(&out.hash)
			case "application":
				return elements(d, func(at json.Token) error { return readApplication(d, at, each) })
			}
			return skip(d)
		})
	})
	if err == nil && !found {
		err = errors.New("it lists no applications")
	}
	if err != nil {
		return answer{}, fmt.Errorf("the answer is none of Eureka's: %w", err)
	}
	return out, nil
}

// readApplication reads one of which the opening brace has been read.
func readApplication(d *json.Decoder, at json.Token, each taker) error {
	if at != json.Delim('{') {
		return unwanted("an application", at, nil)
	}
	var app string
	var text json.RawMessage
	return members(d, func(name string) error {
		switch name {
		case "name":
			return d.Decode(&app)
		case "instance":
			return readInstances(d, app, &text, each)
		}
		return skip(d)
	})
}

// readInstances reads a list of them, or one alone.
func readInstances(d *json.Decoder, app string, text *json.RawMessage, each taker) error {
	take := func() error {
		if len(*text) > maxInstance {
			each(app, nil)
			return nil
		}
		var in instance
		if err := json.Unmarshal(*text, &in); err != nil {
			return err
		}
		each(cmp.Or(app, in.App), &in)
		return nil
	}
	at, err := d.Token()
	switch at {
	case nil:
		return err
	case json.Delim('{'):
		if *text, err = object(d); err != nil {
			return err
		}
		return take()
	case json.Delim('['):
		for d.More() {
			if err := d.Decode(text); err != nil {
				return err
			}
			if err := take(); err != nil {
				return err
			}
		}
		_, err := d.Token()
		return err
	}
	return unwanted("instances", at, nil)
}

// object puts one together again of which the opening brace has been read.
func object(d *json.Decoder) ([]byte, error) {
	out := []byte{'{'}
	err := members(d, func(name string) error {
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		quoted, err := json.Marshal(name)
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, quoted...), ':'), value...)
		return err
	})
	return append(out, '}'), err
}

// fields walks an object's; each takes the value of the field that it is told of.
func fields(d *json.Decoder, each func(name string) error) error {
	if at, err := d.Token(); err != nil || at != json.Delim('{') {
		return unwanted("an object", at, err)
	}
	return members(d, each)
}

// members is fields once the opening brace has been read.
func members(d *json.Decoder, each func(name string) error) error {
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		if err := each(name.(string)); err != nil { // a name is always a string
			return err
		}
	}
	_, err := d.Token()
	return err
}

// elements walks a list: each is told the token that an element begins with. A list of one may stand there without its brackets, as
// older servers write it.
func elements(d *json.Decoder, each func(at json.Token) error) error {
	at, err := d.Token()
	if err != nil || at == nil {
		return err
	}
	if at != json.Delim('[') {
		return each(at)
	}
	for d.More() {
		at, err := d.Token()
		if err != nil {
			return err
		}
		if err := each(at); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

func unwanted(want string, got json.Token, err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("want %s, got %.40v", want, got)
}

func skip(d *json.Decoder) error {
	var any json.RawMessage
	return d.Decode(&any)
}

// instance is one as servers write it.
type instance struct {
	App        string `json:"app"`
	ID         string `json:"instanceId"` // older servers have none
	Host       string `json:"hostName"`
	Address    string `json:"ipAddr"`
	Status     string `json:"status"`
	Override   string `json:"overriddenStatus"` // set from outside
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

// What became of an instance.
const deleted = "DELETED"

// number is a number, which may stand in quotes. One that is none is 0.
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
		*p = port(max(min(is.Number, 1<<16), 0)) // one that is too great is told of where rows are made
	}
	return nil
}

// words are metadata. Values that are no strings are what they look like; lists and objects are left out, and the name of the class
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

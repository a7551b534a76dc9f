package fetch

import "errors"

// Classes of failures. Authors of rules see only the class, because texts of libraries contain addresses of redirects, tokens in addresses,
// and services on ports that only the control plane reaches. The log has the whole error.
var (
	errBarred   = errors.New("its address, or one that it sends to, is in a network that is not called")
	errAnswer   = errors.New("it answers with another status than 200")
	errTooLarge = errors.New("its answer is larger than 1 MiB")
	errNoKeys   = errors.New("its answer is not a key set, or not the configuration of this issuer")
	errAddress  = errors.New("its address is not an http or https URL")
	errAway     = errors.New("it cannot be reached, or does not speak HTTP with a certificate that is trusted")
)

// class is an error together with the text that authors of rules may see.
type class struct {
	error
	reason error
}

func (c class) Unwrap() error { return c.error }

// Reason returns the text that an author of rules may see for an error of Keys. It is the same for closed ports, filtered ports, and ports
// with another protocol.
func Reason(err error) string {
	var known class
	var status *StatusError
	switch {
	case errors.As(err, &known):
		return known.reason.Error()
	case errors.As(err, &status):
		return errAnswer.Error()
	}
	return errAway.Error()
}

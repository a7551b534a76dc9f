package xds

// viewer is a stream's place in the library. It is safe for concurrent use.
type viewer struct {
	lib  *Library
	id   ProxyID
	wake chan struct{} // holds at most one token

	// Guarded by the library's lock.
	bound *binding
	types map[string]bool // the types whose shelves it watches
}

// open registers a stream of the proxy. The viewer is woken once the proxy is attached. Whoever opens it closes it.
func (l *Library) open(id ProxyID) *viewer {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.binding(id)
	w := &viewer{lib: l, id: id, wake: make(chan struct{}, 1), bound: b, types: map[string]bool{}}
	b.viewers[w] = struct{}{}
	return w
}

// close takes the stream out of the library.
func (w *viewer) close() {
	w.lib.mu.Lock()
	defer w.lib.mu.Unlock()
	w.unwatch()
	delete(w.bound.viewers, w)
	w.lib.forget(w.id, w.bound)
}

// follow has the viewer woken by changes of a type, from now on.
func (w *viewer) follow(typ string) {
	w.lib.mu.Lock()
	defer w.lib.mu.Unlock()
	if !w.types[typ] {
		w.types[typ] = true
		w.watch()
	}
}

// read runs fn with what the viewer sees at one turn; fn must not keep the view. It returns false, and does not run
// fn, while the proxy is not attached.
func (w *viewer) read(fn func(v *view)) bool {
	l := w.lib
	l.mu.RLock()
	defer l.mu.RUnlock()
	if w.bound.at == nil {
		return false
	}
	fn(&view{turn: l.turn, at: w.bound.at, lib: l})
	return true
}

// woken returns the channel that gets a token when something changed that the viewer follows, or its attachment did.
func (w *viewer) woken() <-chan struct{} { return w.wake }

// nudge wakes the stream.
func (w *viewer) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *viewer) watch() {
	for _, s := range w.followed() {
		s.watchers[w] = struct{}{}
	}
}

func (w *viewer) unwatch() {
	for _, s := range w.followed() {
		delete(s.watchers, w)
	}
}

func (w *viewer) followed() (out []*shelf) {
	if w.bound.at == nil {
		return nil
	}
	for typ := range w.types {
		out = append(out, w.bound.at.stacks[typ]...)
	}
	return out
}

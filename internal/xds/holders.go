package xds

import (
	"container/list"
	"context"
	"net/netip"
)

// holders are the streams that have identified themselves, by holder. It finds the holder with the most streams without a walk over
// all of them. The server's lock guards it.
type holders struct {
	by     map[string]*list.List       // of *stream, oldest first
	having map[int]map[string]struct{} // holders by how many streams they have
	most   int                         // that one holder has
}

func newHolders() holders {
	return holders{by: map[string]*list.List{}, having: map[int]map[string]struct{}{}}
}

// holderOf returns the holder of a stream: the proved identity, or its address if there is none.
func (s *Server) holderOf(ctx context.Context, from netip.Prefix) string {
	if s.opts.Holder != nil {
		if who := s.opts.Holder(ctx); who != "" {
			return who
		}
	}
	if !from.IsValid() {
		return "this machine"
	}
	return from.String()
}

func (h *holders) add(st *stream) {
	own := h.by[st.holder]
	if own == nil {
		own = list.New()
		h.by[st.holder] = own
	}
	st.element = own.PushBack(st)
	h.move(st.holder, own.Len()-1, own.Len())
}

func (h *holders) remove(st *stream) {
	own := h.by[st.holder]
	own.Remove(st.element)
	h.move(st.holder, own.Len()+1, own.Len())
	if own.Len() == 0 {
		delete(h.by, st.holder)
	}
}

func (h *holders) move(holder string, from, to int) {
	if delete(h.having[from], holder); len(h.having[from]) == 0 {
		delete(h.having, from)
	}
	if to > 0 {
		if h.having[to] == nil {
			h.having[to] = map[string]struct{}{}
		}
		h.having[to][holder] = struct{}{}
	}
	if h.most = max(h.most, to); h.having[h.most] == nil {
		h.most = to // it was the only one with most, and has one fewer now
	}
}

// newestOfMost returns the newest stream of the holder with most, and how many that has; nil: the newcomer's holder would have as many.
func (h *holders) newestOfMost(newcomer string) (*stream, int) {
	if own := h.by[newcomer]; own != nil && own.Len()+1 >= h.most {
		return nil, own.Len()
	}
	for holder := range h.having[h.most] {
		if h.most == 1 {
			break // everybody has one
		}
		return h.by[holder].Back().Value.(*stream), h.most
	}
	return nil, h.most
}

package dynamodbemu

// Capacity counts capacity units.
type Capacity struct{ Read, Write float64 }

// Consumed returns what all calls on a table have consumed so far, those whose
// condition failed and those that were cancelled included.
func (s *Server) Consumed(table string) Capacity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.consumed[table]
}

const (
	writeUnitBytes = 1024
	readUnitBytes  = 4096
	// transactionFactor is how much more an access costs within a transaction.
	transactionFactor = 2
)

// units is the number of units for a size, at least one.
func units(bytes, unit int) float64 { return float64(max(1, (bytes+unit-1)/unit)) }

// writeUnits is the cost of a write, that of the larger of the two items.
func (o outcome) writeUnits() float64 {
	return units(max(o.old.size(), o.new.size()), writeUnitBytes)
}

// readUnits is the cost of reading so many bytes in one go.
func readUnits(bytes int, consistent bool) float64 {
	u := units(bytes, readUnitBytes)
	if !consistent {
		u /= 2
	}
	return u
}

// consume adds to a table's counters.
func (s *Server) consume(table string, c Capacity) {
	sum := s.consumed[table]
	sum.Read += c.Read
	sum.Write += c.Write
	s.consumed[table] = sum
}

// consumedCapacity is the answer's report of what a call consumed.
type consumedCapacity struct {
	TableName          string
	CapacityUnits      float64
	ReadCapacityUnits  float64        `json:",omitzero"`
	WriteCapacityUnits float64        `json:",omitzero"`
	Table              *tableCapacity `json:",omitzero"`
}

type tableCapacity struct {
	CapacityUnits      float64
	ReadCapacityUnits  float64 `json:",omitzero"`
	WriteCapacityUnits float64 `json:",omitzero"`
}

// capacityParam is the parameter that asks for the report.
type capacityParam struct{ ReturnConsumedCapacity string }

func (p capacityParam) check(c *constraints) {
	c.enum(p.ReturnConsumedCapacity, "returnConsumedCapacity", "INDEXES", "TOTAL", "NONE")
}

// report is nil unless the caller asked for it.
func (p capacityParam) report(table string, units float64) *consumedCapacity {
	switch p.ReturnConsumedCapacity {
	case "TOTAL":
		return &consumedCapacity{TableName: table, CapacityUnits: units}
	case "INDEXES":
		return &consumedCapacity{TableName: table, CapacityUnits: units, Table: &tableCapacity{CapacityUnits: units}}
	}
	return nil
}

// reports is the form for calls on several tables. Transactions also tell reads
// from writes.
func (p capacityParam) reports(used map[string]Capacity, transaction bool) []consumedCapacity {
	var out []consumedCapacity
	for _, name := range sortedKeys(used) {
		c := used[name]
		r := p.report(name, c.Read+c.Write)
		if r == nil {
			return nil
		}
		if transaction {
			r.ReadCapacityUnits, r.WriteCapacityUnits = c.Read, c.Write
			if r.Table != nil {
				r.Table.ReadCapacityUnits, r.Table.WriteCapacityUnits = c.Read, c.Write
			}
		}
		out = append(out, *r)
	}
	return out
}

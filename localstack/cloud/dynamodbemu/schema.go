package dynamodbemu

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

type attributeDefinition struct{ AttributeName, AttributeType string }

type keySchemaElement struct{ AttributeName, KeyType string }

type provisionedThroughput struct {
	ReadCapacityUnits      int64
	WriteCapacityUnits     int64
	NumberOfDecreasesToday int64
}

type billingModeSummary struct {
	BillingMode                       string
	LastUpdateToPayPerRequestDateTime float64 `json:",omitzero"`
}

type tableClassSummary struct{ TableClass string }

// tableDescription is what CreateTable and DescribeTable answer.
type tableDescription struct {
	TableName                 string
	TableArn                  string
	TableId                   string
	TableStatus               string
	CreationDateTime          float64 // seconds since 1970
	AttributeDefinitions      []attributeDefinition
	KeySchema                 []keySchemaElement
	ProvisionedThroughput     provisionedThroughput
	BillingModeSummary        *billingModeSummary `json:",omitzero"`
	TableClassSummary         *tableClassSummary  `json:",omitzero"`
	DeletionProtectionEnabled bool
	ItemCount                 int64
	TableSizeBytes            int64
}

type tag struct{ Key, Value string }

type createTableParams struct {
	indexParams

	TableName                 *string
	AttributeDefinitions      []attributeDefinition
	KeySchema                 []keySchemaElement
	BillingMode               string
	ProvisionedThroughput     *provisionedThroughput
	DeletionProtectionEnabled bool
	TableClass                string
	Tags                      []tag
}

// indexParams are parameters that make a table more than this emulator has.
type indexParams struct {
	GlobalSecondaryIndexes      []map[string]any
	LocalSecondaryIndexes       []map[string]any
	GlobalSecondaryIndexUpdates []map[string]any
	ReplicaUpdates              []map[string]any
	StreamSpecification         *struct{ StreamEnabled bool }
}

func (p *indexParams) refuse() error {
	switch {
	case len(p.GlobalSecondaryIndexes) > 0, len(p.GlobalSecondaryIndexUpdates) > 0:
		return errUnsupported("global secondary indexes: create the table without GlobalSecondaryIndexes")
	case len(p.LocalSecondaryIndexes) > 0:
		return errUnsupported("local secondary indexes: create the table without LocalSecondaryIndexes")
	case len(p.ReplicaUpdates) > 0:
		return errUnsupported("global tables: leave ReplicaUpdates out")
	case p.StreamSpecification != nil && p.StreamSpecification.StreamEnabled:
		return errUnsupported("streams: create the table without StreamSpecification")
	}
	return nil
}

func (s *Server) createTable(body []byte) (operation, error) {
	var p createTableParams
	if err := decode(body, &p); err != nil {
		return operation{}, err
	}
	name, err := p.check()
	if err != nil {
		return operation{}, err
	}
	if err := p.refuse(); err != nil {
		return operation{}, err
	}
	return operation{run: func() (any, error) {
		if s.tables[name] != nil {
			return nil, newError(codeResourceInUse, "Table already exists: "+name)
		}
		t := s.newTable(name, &p)
		s.tables[name] = t
		// As on AWS the answer says CREATING; the next one says ACTIVE.
		description := t.description
		description.TableStatus = "CREATING"
		return struct{ TableDescription tableDescription }{description}, nil
	}}, nil
}

func (p *createTableParams) check() (string, error) {
	var c constraints
	name := c.tableName(p.TableName, minNewTableName)
	c.present(p.AttributeDefinitions != nil, "attributeDefinitions")
	c.present(p.KeySchema != nil, "keySchema")
	c.enum(p.BillingMode, "billingMode", "PROVISIONED", "PAY_PER_REQUEST")
	c.enum(p.TableClass, "tableClass", "STANDARD", "STANDARD_INFREQUENT_ACCESS")
	if p.KeySchema != nil {
		c.length(len(p.KeySchema), 1, 2, quoted(describeKeySchema(p.KeySchema)), "keySchema")
	}
	for _, a := range p.AttributeDefinitions {
		c.enum(a.AttributeType, "attributeDefinitions.member.attributeType", "B", "N", "S")
	}
	for _, k := range p.KeySchema {
		c.enum(k.KeyType, "keySchema.member.keyType", "HASH", "RANGE")
	}
	if p.ProvisionedThroughput != nil {
		c.atLeast(&p.ProvisionedThroughput.WriteCapacityUnits, 1, "provisionedThroughput.writeCapacityUnits")
		c.atLeast(&p.ProvisionedThroughput.ReadCapacityUnits, 1, "provisionedThroughput.readCapacityUnits")
	}
	if err := c.err(); err != nil {
		return "", err
	}
	if err := p.checkBilling(); err != nil {
		return "", err
	}
	return name, p.checkKeySchema()
}

func describeKeySchema(schema []keySchemaElement) string {
	parts := make([]string, len(schema))
	for i, k := range schema {
		parts[i] = "KeySchemaElement(attributeName=" + k.AttributeName + ", keyType=" + k.KeyType + ")"
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func (p *createTableParams) checkBilling() error {
	const invalid = "One or more parameter values were invalid: "
	switch onDemand := p.BillingMode == "PAY_PER_REQUEST"; {
	case onDemand && p.ProvisionedThroughput != nil:
		return validationError(invalid + "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST")
	case !onDemand && p.ProvisionedThroughput == nil:
		return validationError(invalid + "ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED")
	}
	return nil
}

func (p *createTableParams) checkKeySchema() error {
	keys := make([]string, 0, len(p.KeySchema))
	defined := make([]string, 0, len(p.AttributeDefinitions))
	for _, k := range p.KeySchema {
		keys = append(keys, k.AttributeName)
	}
	for _, d := range p.AttributeDefinitions {
		defined = append(defined, d.AttributeName)
	}
	const invalid = "One or more parameter values were invalid: "
	for _, k := range keys {
		if !slices.Contains(defined, k) {
			return validationErrorf(invalid+"Some index key attributes are not defined in AttributeDefinitions. Keys: [%s], AttributeDefinitions: [%s]",
				strings.Join(keys, ", "), strings.Join(defined, ", "))
		}
	}
	switch {
	case len(keys) == 2 && keys[0] == keys[1]:
		return validationError("Both the Hash Key and the Range Key element in the KeySchema have the same name")
	case p.KeySchema[0].KeyType != "HASH":
		return validationError("Invalid KeySchema: The first KeySchemaElement is not a HASH key type")
	case len(keys) == 2 && p.KeySchema[1].KeyType != "RANGE":
		return validationError("Invalid KeySchema: The second KeySchemaElement is not a RANGE key type")
	case len(keys) != len(defined) && len(p.GlobalSecondaryIndexes)+len(p.LocalSecondaryIndexes) == 0:
		return validationError(invalid + "Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions")
	}
	return nil
}

func (s *Server) newTable(name string, p *createTableParams) *table {
	now := epochSeconds(s.opts.Clock())
	t := &table{
		tags:  make(map[string]string),
		byKey: make(map[string]*partition),
		description: tableDescription{
			TableName:                 name,
			TableArn:                  "arn:aws:dynamodb:" + s.opts.Region + ":" + s.opts.AccountID + ":table/" + name,
			TableId:                   uuid.NewString(),
			TableStatus:               "ACTIVE",
			CreationDateTime:          now,
			AttributeDefinitions:      p.AttributeDefinitions,
			KeySchema:                 p.KeySchema,
			DeletionProtectionEnabled: p.DeletionProtectionEnabled,
		},
	}
	if p.ProvisionedThroughput != nil {
		t.description.ProvisionedThroughput = *p.ProvisionedThroughput
	}
	if p.TableClass != "" {
		t.description.TableClassSummary = &tableClassSummary{p.TableClass}
	}
	t.setBilling(p.BillingMode, now)
	t.addTags(p.Tags)
	attributes := t.keyAttributesFrom(p)
	t.partition = attributes[0]
	if len(attributes) == 2 {
		t.sort = &attributes[1]
	}
	return t
}

func (t *table) keyAttributesFrom(p *createTableParams) []keyAttribute {
	out := make([]keyAttribute, 0, len(p.KeySchema))
	for _, k := range p.KeySchema {
		i := slices.IndexFunc(p.AttributeDefinitions, func(d attributeDefinition) bool { return d.AttributeName == k.AttributeName })
		out = append(out, keyAttribute{name: k.AttributeName, kind: kind(p.AttributeDefinitions[i].AttributeType)})
	}
	return out
}

func (t *table) setBilling(mode string, now float64) {
	switch mode {
	case "PAY_PER_REQUEST":
		t.description.BillingModeSummary = &billingModeSummary{BillingMode: mode, LastUpdateToPayPerRequestDateTime: now}
		t.description.ProvisionedThroughput = provisionedThroughput{}
	case "PROVISIONED":
		t.description.BillingModeSummary = &billingModeSummary{BillingMode: mode}
	}
}

func (t *table) addTags(tags []tag) {
	for _, tg := range tags {
		t.tags[tg.Key] = tg.Value
	}
}

func epochSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

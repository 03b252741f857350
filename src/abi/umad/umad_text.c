/* Names of classes, methods, attributes and status values, as the stock library prints them: tools show them, and
 * abi/umad_test asks both libraries for all. */
#include "abi/umad/umad_abi.h"

#include "wire/mad.h"

#include <endian.h>

struct name {
	uint16_t value;
	const char *text;
};

#define UNKNOWN "<unknown>"

/* The table ends with a row without text. */
static const char *find(const struct name *table, unsigned value)
{
	while (table->text && table->value != value)
		table++;
	return table->text;
}

static const struct name classes[] = {
	{ 0x01, "Subn" }, { 0x03, "SubnAdm" }, { 0x04, "Perf" }, { 0x05, "BM" }, { 0x06, "DevMgt" }, { 0x07, "ComMgt" },
	{ 0x08, "SNMP" }, { 0x10, "DevAdm" }, { 0x11, "BootMgt" }, { 0x12, "BIS" }, { 0x21, "CongestionManagment" },
	{ 0x81, "Subn" }, { 0, NULL },
};

UMAD_EXPORT const char *umad_class_str(uint8_t mgmt_class)
{
	const char *text = find(classes, mgmt_class);

	if (text)
		return text;
	if ((mgmt_class >= 0x09 && mgmt_class <= 0x0f) || (mgmt_class >= 0x30 && mgmt_class <= 0x4f))
		return "Vendor";
	return mgmt_class >= 0x10 && mgmt_class <= 0x2f ? "Application" : UNKNOWN;
}

static const struct name methods[] = {
	{ 0x01, "Get" }, { 0x02, "Set" }, { 0x03, "Send" }, { 0x05, "Trap" }, { 0x06, "Report" }, { 0x07, "TrapRepress" },
	{ 0x81, "GetResp" }, { 0x86, "ReportResp" }, { 0, NULL },
};

static const struct name sa_methods[] = {
	{ 0x12, "GetTable" }, { 0x13, "GetTraceTable" }, { 0x14, "GetMulti" }, { 0x15, "Delete" }, { 0x92, "GetTableResp" },
	{ 0x94, "GetMultiResp" }, { 0x95, "DeleteResp" }, { 0, NULL },
};

UMAD_EXPORT const char *umad_method_str(uint8_t mgmt_class, uint8_t method)
{
	const char *text = find(methods, method);

	if (!text && mgmt_class == MAD_CLASS_SA)
		text = find(sa_methods, method);
	return text ? text : "<unknown";	/* so the stock library has it */
}

static const struct name attributes[] = {
	{ 0x01, "Class Port Info" }, { 0x02, "Notice" }, { 0x03, "Inform Info" }, { 0, NULL },
};

static const struct name subn_attributes[] = {
	{ 0x10, "NodeDescription" }, { 0x11, "NodeInfo" }, { 0x12, "SwitchInfo" }, { 0x14, "GUIDInfo" }, { 0x15, "PortInfo" },
	{ 0x16, "P_KeyTable" }, { 0x17, "SLtoVLMappingTable" }, { 0x18, "VLArbitrationTable" },
	{ 0x19, "LinearForwardingTable" }, { 0x1a, "RandomForwardingTable" }, { 0x1b, "MulticastForwardingTable" },
	{ 0x1c, "LinkSpeedWidthPairsTable" }, { 0x1d, "VendorSpecificMadsTable" }, { 0x1e, "HierarchyInfo" },
	{ 0x20, "SMInfo" }, { 0x30, "VendorDiag" }, { 0x31, "LedInfo" }, { 0x32, "CableInfo" }, { 0x33, "PortInfoExtended" },
	{ 0, NULL },
};

static const struct name sa_attributes[] = {
	{ 0x11, "NodeRecord" }, { 0x12, "PortInfoRecord" }, { 0x13, "SLtoVLMappingTableRecord" }, { 0x14, "SwitchInfoRecord" },
	{ 0x15, "LinearForwardingTableRecord" }, { 0x16, "RandomForwardingTableRecord" },
	{ 0x17, "MulticastForwardingTableRecord" }, { 0x18, "SMInfoRecord" }, { 0x19, "LinkSpeedWidthPairsTableRecord" },
	{ 0x20, "LinkRecord" }, { 0x30, "GuidInfoRecord" }, { 0x31, "ServiceRecord" }, { 0x33, "P_KeyTableRecord" },
	{ 0x35, "PathRecord" }, { 0x36, "VLArbitrationTableRecord" }, { 0x38, "MCMemberRecord" }, { 0x39, "TraceRecord" },
	{ 0x3a, "MultiPathRecord" }, { 0x3b, "ServiceAssociationRecord" }, { 0x3c, "HierarchyInfoRecord" },
	{ 0x3d, "CableInfoRecord" }, { 0x3e, "PortInfoExtendedRecord" }, { 0xf3, "InformInfoRecord" }, { 0, NULL },
};

static const struct name cm_attributes[] = {
	{ 0x10, "ConnectRequest" }, { 0x11, "MsgRcptAck" }, { 0x12, "ConnectReject" }, { 0x13, "ConnectReply" },
	{ 0x14, "ReadyToUse" }, { 0x15, "DisconnectRequest" }, { 0x16, "DisconnectReply" }, { 0x17, "ServiceIDResReq" },
	{ 0x18, "ServiceIDResReqResp" }, { 0x19, "LoadAlternatePath" }, { 0x1a, "AlternatePathResponse" },
	{ 0x1b, "SuggestAlternatePath" }, { 0x1c, "SuggestPathResponse" }, { 0, NULL },
};

UMAD_EXPORT const char *umad_attribute_str(uint8_t mgmt_class, be16 attr_id)
{
	unsigned attribute = be16toh(attr_id);
	const char *text = find(attributes, attribute);

	if (!text && (mgmt_class == MAD_CLASS_SUBN_LID || mgmt_class == MAD_CLASS_SUBN_DIRECTED))
		text = find(subn_attributes, attribute);
	else if (!text && mgmt_class == MAD_CLASS_SA)
		text = find(sa_attributes, attribute);
	else if (!text && mgmt_class == MAD_CLASS_CM)
		text = find(cm_attributes, attribute);
	return text ? text : UNKNOWN;
}

/* IBA 13.4.7: bits 0 and 1 by themselves, then a code of three bits; reserved ones are called so
 * by the stock library. */
UMAD_EXPORT const char *umad_common_mad_status_str(be16 status)
{
	static const char *const codes[8] = { "Success", "Bad Version", "Method not supported",
					      "Method/Attribute combo not supported", "Success", "Success", "Success",
					      "Invalid attribute/modifier field" };
	unsigned value = be16toh(status);

	if (value & 1)
		return "Busy";
	return value & 2 ? "Redirection required" : codes[value >> 2 & 7];
}

/* IBA 15.2.4.3 */
UMAD_EXPORT const char *umad_sa_mad_status_str(be16 status)
{
	static const char *const codes[] = { "Success", "No Resources", "Request Invalid", "No Records", "Too Many Records",
					     "Invalid GID", "Insufficient Components", "Request Denied", "Priority Suggested" };
	unsigned code = be16toh(status) >> 8;

	return code < sizeof(codes) / sizeof(codes[0]) ? codes[code] : "Undefined Error";
}

-- Flow rate packets (FRPs) of ACCurate over UDP. Filter: accurate.
do
    local accurate = Proto("accurate", "ACCurate flow rate packet")
    local kinds = { [0] = "FRP", [1] = "Flow-init", [2] = "Flow-stop" }
    local f = {
        version = ProtoField.uint8("accurate.version", "Version", base.DEC, nil, 0xf0),
        kind = ProtoField.uint8("accurate.kind", "Kind", base.DEC, kinds, 0x0f),
        response = ProtoField.bool("accurate.response", "Response", 8, nil, 0x01),
        short = ProtoField.bool("accurate.short", "Short-circuit", 8, nil, 0x02),
        counted = ProtoField.bool("accurate.counted", "Counted", 8, nil, 0x04),
        period = ProtoField.uint16("accurate.period", "Period", base.DEC),
        proto = ProtoField.uint8("accurate.flow.proto", "Protocol of the flow", base.DEC),
        qp = ProtoField.uint24("accurate.flow.qp", "Destination queue pair of the flow", base.HEX),
        srcport = ProtoField.uint16("accurate.flow.srcport", "Source port of the flow", base.DEC),
        dstport = ProtoField.uint16("accurate.flow.dstport", "Destination port of the flow", base.DEC),
        cr = ProtoField.uint32("accurate.cr", "CR (kb/s)", base.DEC),
        dr = ProtoField.uint32("accurate.dr", "DR (kb/s)", base.DEC),
    }
    accurate.fields = f
    local LEN, VERSION, PORT = 20, 1, 54792

    function accurate.dissector(b, pinfo, root)
        if b:len() < LEN or bit.rshift(b(0, 1):uint(), 4) ~= VERSION then
            return 0
        end
        local tree = root:add(accurate, b(0, LEN))
        tree:add(f.version, b(0, 1))
        tree:add(f.kind, b(0, 1))
        for _, flag in ipairs({ f.response, f.short, f.counted }) do
            tree:add(flag, b(1, 1))
        end
        tree:add(f.period, b(2, 2))
        tree:add(f.proto, b(4, 1))
        tree:add(f.qp, b(5, 3))
        tree:add(f.srcport, b(8, 2))
        tree:add(f.dstport, b(10, 2))
        tree:add(f.cr, b(12, 4))
        tree:add(f.dr, b(16, 4))
        local flags = b(1, 1):uint()
        local text = kinds[bit.band(b(0, 1):uint(), 15)] or "Unknown"
        if bit.band(flags, 2) ~= 0 then
            text = text .. ", short-circuit reply"
        elseif bit.band(flags, 1) ~= 0 then
            text = text .. ", response"
        end
        pinfo.cols.protocol = "ACCurate"
        pinfo.cols.info = string.format("%s: CR %.10g Mb/s, DR %.10g Mb/s, period %d", text, b(12, 4):uint() / 1000, b(16, 4):uint() / 1000, b(2, 2):uint())
        return LEN
    end

    DissectorTable.get("udp.port"):add(PORT, accurate)
end

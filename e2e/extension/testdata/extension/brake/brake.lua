-- The messages of package brake. A block of its own keeps its names to itself.
do
    local brake = Proto("brake", "Brake notice")
    local f = {
        qp = ProtoField.uint32("brake.qp", "Destination queue pair", base.HEX),
        queue = ProtoField.uint32("brake.queue", "Queue", base.DEC),
    }
    brake.fields = f

    function brake.dissector(tvb, pinfo, tree)
        if tvb:captured_len() < 8 then
            return 0
        end
        pinfo.cols.protocol = "BRAKE"
        pinfo.cols.info = string.format("Brake: queue pair 0x%06x met %d bytes", tvb(0, 4):uint(), tvb(4, 4):uint())
        local item = tree:add(brake, tvb(0, 8))
        item:add(f.qp, tvb(0, 4))
        item:add(f.queue, tvb(4, 4))
        return 8
    end

    DissectorTable.get("udp.port"):add(50777, brake)
end
